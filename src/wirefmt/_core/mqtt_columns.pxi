# mqtt_columns
