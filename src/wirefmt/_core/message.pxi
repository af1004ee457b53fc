# message
