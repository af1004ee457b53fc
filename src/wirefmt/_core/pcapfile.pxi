# pcapfile
