# writer
