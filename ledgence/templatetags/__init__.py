"""Tags for the admin's templates."""
