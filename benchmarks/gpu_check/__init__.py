"""What an owner of a GPU runs in ten minutes: `make test-gpu`."""
