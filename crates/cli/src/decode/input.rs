//! What is decoded, and what is known of it beside its bytes.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use turnwright::{ErrorInfo, core::Timestamp, providers::Recording};

use super::formats::{self, Format};
use crate::{Refusal, args::DecodeArgs};

pub(super) struct Input {
    pub(super) reader: Box<dyn Read>,
    /// Its name, for people.
    name: String,
    /// The head, where `--record` wrote the file.
    recording: Option<Recording>,
    /// None where it must be found out.
    pub(super) format: Option<&'static Format>,
    pub(super) status: u16,
}

impl Input {
    pub(super) fn open(args: &DecodeArgs) -> Result<Self, Refusal> {
        let path = args.file.as_deref().filter(|file| *file != Path::new("-"));
        let recording = match path {
            Some(path) => Recording::of(path).map_err(|e| Refusal::new(e.message))?,
            None => None,
        };
        let given = (args.format != "auto").then_some(&*args.format);
        let name = given.or(recording.as_ref().map(Recording::format));
        let format = name.map(formats::find).transpose().map_err(|why| {
            Refusal::new(why).hint("name one with --format; `turnwright decode --help` lists them")
        })?;
        let status = args.http_status.or(recording.as_ref().and_then(Recording::status)).unwrap_or(200);
        let (reader, name): (Box<dyn Read>, _) = match path {
            None => (Box::new(io::stdin().lock()), "standard input".into()),
            Some(path) => {
                let body = recording.as_ref().map_or(path, Recording::body);
                let has_body = recording.as_ref().is_none_or(|recording| recording.status().is_some());
                let reader: Box<dyn Read> = match has_body {
                    true => Box::new(file(body)?),
                    false => Box::new(io::empty()),
                };
                (reader, body.display().to_string())
            }
        };
        Ok(Self { reader, name, recording, format, status })
    }

    /// The failure of an exchange without an answer.
    pub(super) fn no_answer(&self) -> Option<ErrorInfo> {
        self.recording.as_ref()?.no_answer().cloned()
    }

    /// Whether it is no model output: a status other than 2xx, or a page.
    pub(super) fn is_refusal(&self) -> bool {
        let is_page = self
            .header("content-type")
            .is_some_and(|t| t.trim_start().to_ascii_lowercase().starts_with("text/html"));
        !(200..300).contains(&self.status) || is_page
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.recording.as_ref()?.header(name)
    }

    pub(super) fn answered_at(&self) -> Option<Timestamp> {
        self.recording.as_ref().map(Recording::answered_at)
    }

    /// Who errors name.
    pub(super) fn provider(&self) -> &str {
        self.format.map_or("provider", |format| self.provider_of(format))
    }

    pub(super) fn provider_of(&self, format: &'static Format) -> &str {
        self.recording.as_ref().map_or(format.provider, Recording::provider)
    }

    pub(super) fn unreadable(&self, error: &io::Error) -> Refusal {
        unreadable(&self.name, error)
    }
}

fn file(path: &Path) -> Result<File, Refusal> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| unreadable(&name, &e))?;
    let is_directory = file.metadata().is_ok_and(|metadata| metadata.is_dir());
    if is_directory {
        let refusal = Refusal::new(format!("{name} is a directory"));
        return Err(refusal.hint("name one file in it: a body, or what --record wrote, such as 0001.json"));
    }
    Ok(file)
}

fn unreadable(name: &str, error: &io::Error) -> Refusal {
    Refusal::new(format!("{name} cannot be read: {error}"))
}
