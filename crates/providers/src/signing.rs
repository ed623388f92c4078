//! What signs requests, where a format wants that.

#[cfg(feature = "sigv4")]
pub(crate) use crate::sigv4::Signer;

#[cfg(not(feature = "sigv4"))]
mod nobody {
    use reqwest::Request;
    use turnwright_core::{ErrorInfo, Timestamp};

    /// There is none: the feature `sigv4` is off.
    #[derive(Debug, Clone)]
    pub enum Signer {}

    impl Signer {
        pub(crate) fn check(&self) -> Result<(), ErrorInfo> {
            match *self {}
        }

        pub(crate) fn secrets(&self) -> Vec<&str> {
            match *self {}
        }

        pub(crate) fn sign(&self, _: &mut Request, _: &[u8], _: Timestamp) -> Result<(), ErrorInfo> {
            match *self {}
        }
    }
}
#[cfg(not(feature = "sigv4"))]
pub(crate) use nobody::Signer;
