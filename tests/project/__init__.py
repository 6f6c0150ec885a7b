"""Tests of the checkout: the embedded database, the Makefile, the packages."""
