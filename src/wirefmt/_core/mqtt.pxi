# mqtt
