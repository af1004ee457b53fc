"""What each request of each protocol needs (`wirefmt.broker.permissions`): a module for each protocol, with its table `REQUESTS`.

Every request of the specification has a row, also those that need no right, with the reason. A broker asks its table when a
request arrives, before it does anything. What has no row is refused.
"""
