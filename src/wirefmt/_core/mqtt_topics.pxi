# mqtt_topics
