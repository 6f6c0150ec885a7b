"""The adapter to SQS Standard queues, and to brokers that speak its protocol. Only its options do without boto3."""
