"""The kit for backends: what every runtime's backend needs and none should write again."""
