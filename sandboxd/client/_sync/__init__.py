"""The blocking forms: thin facades that drive the async ones over a transport that blocks.

A test compares every signature and docstring with its async twin.
"""

from sandboxd.client._sync._file_streams import ArchiveStream, FileStream, FileWatch
from sandboxd.client._sync._files import Files
from sandboxd.client._sync._process import Process
from sandboxd.client._sync._sandbox import Sandbox
from sandboxd.client._sync._shell import Shell

__all__ = ["ArchiveStream", "FileStream", "FileWatch", "Files", "Process", "Sandbox", "Shell"]
