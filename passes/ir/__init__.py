"""The IR as it stands: control flow, constants, types, signatures, metadata."""
