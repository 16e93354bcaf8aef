"""The interface to a runtime, and the state shared while a device is open."""
