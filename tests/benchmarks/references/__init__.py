"""What the product is measured against, each behind a function that gives one sample."""
