"""What tests of applications and of adapters use. It needs no Django settings."""
