# mqtt_table
