//! The only place where a Rust error becomes a Python exception: one private type that carries a
//! code. The public classes stay plain Python, importable without the extension.

use pyo3::prelude::*;
use sandboxd_client::{CallError, ErrorCode};
use strum::IntoEnumIterator as _;

pyo3::create_exception!(
    sandboxd._native,
    NativeError,
    pyo3::exceptions::PyException,
    "Failure of a call, as `(code, message, may_have_run, reason)`. Never leaves `sandboxd.client`."
);

/// Lets `?` cross the boundary: neither `CallError` nor `PyErr` belongs to this crate.
#[derive(Debug)]
pub(crate) struct BridgeError(CallError);

impl From<CallError> for BridgeError {
    fn from(error: CallError) -> Self {
        Self(error)
    }
}

impl From<BridgeError> for PyErr {
    fn from(BridgeError(error): BridgeError) -> Self {
        let code: &'static str = error.code.into();
        NativeError::new_err((code, error.message, error.may_have_run, error.reason))
    }
}

/// Adds `ERROR_CODES`, against which the public exceptions are checked.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let codes: Vec<&'static str> = ErrorCode::iter().map(Into::into).collect();
    module.add("ERROR_CODES", codes)
}
