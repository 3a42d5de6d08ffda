//! `sandboxd._native`: the direct path for Python.
