# packets
