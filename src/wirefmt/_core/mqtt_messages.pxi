# mqtt_messages
