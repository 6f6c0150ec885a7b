"""The publisher's loop, its start and its process, over brokers in memory."""
