"""The publisher: sends references to due work of external queues to their brokers."""
