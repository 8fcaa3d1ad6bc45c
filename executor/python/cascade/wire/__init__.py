"""Messages and links, as docs/protocol.md describes them."""
