"""What core needs from a runtime, and what is shared while a device is open."""
