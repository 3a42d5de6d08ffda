"""What tests share: looking at processes, counting what is left, being somebody else."""
