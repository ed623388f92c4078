//! One recorded exchange, for tools that read it.

use std::path::{Path, PathBuf};

use turnwright_core::{ErrorInfo, Timestamp};

use super::{
    head::{Ending, Head},
    play::moment,
    recorder::{body_path, number_of},
};

/// The head of one recorded exchange. Use it to read a single recording; [`crate::Replayer`] answers from all of them.
#[derive(Debug)]
pub struct Recording {
    head: Head,
    body: PathBuf,
}

impl Recording {
    /// The exchange this file belongs to, be it the head or the body; none where it belongs to none.
    ///
    /// # Errors
    /// [`turnwright_core::ErrorKind::Corrupt`] when the head cannot be read,
    /// [`turnwright_core::ErrorKind::UnsupportedVersion`] when a newer version wrote it.
    pub fn of(file: &Path) -> Result<Option<Self>, ErrorInfo> {
        let Some(number) = number_of(file) else { return Ok(None) };
        let head = file.with_extension("json");
        if !head.is_file() {
            return Ok(None);
        }
        let directory = file.parent().unwrap_or(Path::new(""));
        let body = match file.extension().is_some_and(|ext| ext == "body") {
            true => file.to_owned(),
            false => body_path(directory, number),
        };
        Ok(Head::read(&head)?.map(|head| Self { head, body }))
    }

    /// The format's name, for example `openai-responses`.
    pub fn format(&self) -> &str {
        &self.head.format
    }

    /// The provider's name, as the client was told it.
    pub fn provider(&self) -> &str {
        &self.head.provider
    }

    /// The model that was asked.
    pub fn model(&self) -> &str {
        &self.head.model
    }

    /// The body of the request, without secrets.
    pub fn request(&self) -> &serde_json::Value {
        &self.head.request
    }

    /// The HTTP status; none where no answer came.
    pub fn status(&self) -> Option<u16> {
        self.head.answer.as_ref().map(|answer| answer.status)
    }

    /// A header of the answer, by its name in lower case, if it is one of the few that are kept.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.answer.as_ref()?.headers.get(name).map(String::as_str)
    }

    /// When the answer began, or the request where none came.
    pub fn answered_at(&self) -> Timestamp {
        moment(&self.head)
    }

    /// Why no answer came, where none did or what came was none of a model: a redirect, or a body of another type.
    pub fn no_answer(&self) -> Option<&ErrorInfo> {
        match &self.head.ending {
            Ending::NoAnswer { error } => Some(error),
            _ => None,
        }
    }

    /// Where the body is. There is none where no answer came.
    pub fn body(&self) -> &Path {
        &self.body
    }
}
