"""What is on this machine: hosts and their servers, our installation, what runs."""
