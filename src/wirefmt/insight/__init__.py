"""From messages to answers: operations and connections, made of the message table."""
