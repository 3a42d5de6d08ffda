"""The control API over HTTP. The only package that knows HTTP on the server's side."""

from sandboxd.api.app import make_app
from sandboxd.api.server import Address, serve

__all__ = ["Address", "make_app", "serve"]
