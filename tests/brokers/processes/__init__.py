"""Publishers and workers as processes over ElasticMQ: whatever fails between them, each attempt runs once."""
