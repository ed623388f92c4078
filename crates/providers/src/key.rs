//! Where a client's key comes from.

use std::{
    ffi::OsString,
    io::{self, ErrorKind as IoKind},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use crate::signing::Signer;
use tokio::{
    fs::{self, File},
    io::AsyncReadExt,
    process::Command,
    sync::Mutex,
    time::timeout,
};
use turnwright_core::{Clock, ErrorInfo, ErrorKind, clock::Instant};

/// A key is shorter than this, in bytes.
const LONGEST_KEY: u64 = 64 * 1024;

/// How long a file or a command may take.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How long what a command printed is used.
const COMMAND_FRESH: Duration = Duration::from_secs(300);

/// Where the key comes from.
#[derive(Clone, Default)]
pub(crate) enum Key {
    #[default]
    None,
    Value(String),
    Source(Source),
    /// No key goes out: what it was made of signs the requests.
    Signer(Signer),
}

impl Key {
    pub(crate) fn signer(&self) -> Option<&Signer> {
        if let Self::Signer(signer) = self { Some(signer) } else { None }
    }
}

/// What gives a key when it is needed.
#[derive(Clone)]
pub(crate) enum Source {
    File(PathBuf),
    Command { program: OsString, args: Vec<OsString> },
}

/// A source, and what it gave last.
pub(crate) struct KeySource {
    source: Source,
    /// What the command printed, and when.
    printed: parking_lot::Mutex<Option<(String, Instant)>>,
    /// Held while it runs, so that calls at the same time run it once.
    running: Mutex<()>,
}

impl KeySource {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, printed: parking_lot::Mutex::default(), running: Mutex::default() }
    }

    /// The key as it is now.
    ///
    /// # Cancel safety
    /// Dropped, it kills the command; the next call runs it anew.
    pub(crate) async fn get(&self, clock: &dyn Clock) -> Result<String, ErrorInfo> {
        match &self.source {
            Source::File(path) => read(path).await,
            Source::Command { program, args } => {
                let _running = self.running.lock().await;
                if let Some((key, at)) = &*self.printed.lock()
                    && clock.instant() < *at + COMMAND_FRESH
                {
                    return Ok(key.clone());
                }
                let key = run(program, args).await?;
                *self.printed.lock() = Some((key.clone(), clock.instant()));
                Ok(key)
            }
        }
    }

    /// The server refused this key: the command is run anew for the next call, unless another call did so already.
    pub(crate) fn forget(&self, refused: &str) {
        let mut printed = self.printed.lock();
        if printed.as_ref().is_some_and(|(key, _)| key == refused) {
            *printed = None;
        }
    }
}

/// The key in a file. Read for each call, so that one that is exchanged is used at once.
async fn read(path: &Path) -> Result<String, ErrorInfo> {
    let place = format!("the file of the API key, {},", path.display());
    let reading = async {
        // Before it is opened: a pipe that nobody writes to would hold a thread for ever.
        if !fs::metadata(path).await?.is_file() {
            return Err(io::Error::new(IoKind::InvalidInput, "it is no regular file"));
        }
        limited(&mut File::open(path).await?).await
    };
    match timeout(LONGEST_WAIT, reading).await {
        Ok(Ok(text)) => checked(text, &place),
        Ok(Err(why)) => Err(wrong(format!("{place} cannot be read: {why}"))),
        Err(_) => Err(wrong(format!("{place} was not read within {LONGEST_WAIT:?}"))),
    }
}

/// What a command prints. What it says on standard error is not repeated: it may hold the key.
async fn run(program: &OsString, args: &[OsString]) -> Result<String, ErrorInfo> {
    let place = format!("the command for the API key, {},", program.display());
    let running = async {
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let text = match &mut child.stdout {
            Some(stdout) => limited(stdout).await?,
            None => Vec::new(),
        };
        Ok::<_, io::Error>((child.wait().await?, text))
    };
    match timeout(LONGEST_WAIT, running).await {
        Ok(Ok((status, text))) if status.success() => checked(text, &place),
        Ok(Ok((status, _))) => Err(wrong(format!("{place} failed with {status}; run it by hand to see why"))),
        Ok(Err(why)) => Err(wrong(format!("{place} cannot be run: {why}"))),
        Err(_) => Err(wrong(format!("{place} was not ready within {LONGEST_WAIT:?}"))),
    }
}

async fn limited(from: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(LONGEST_KEY + 1).read_to_end(&mut text).await?;
    if text.len() as u64 > LONGEST_KEY {
        return Err(io::Error::new(IoKind::InvalidData, "what it holds is too long for a key"));
    }
    Ok(text)
}

fn checked(text: Vec<u8>, place: &str) -> Result<String, ErrorInfo> {
    let text = String::from_utf8(text).map_err(|_| wrong(format!("{place} holds what is no text")))?;
    match text.trim() {
        "" => Err(wrong(format!("{place} holds nothing"))),
        key => Ok(key.to_owned()),
    }
}

fn wrong(message: String) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Configuration, message)
}

#[cfg(test)]
mod tests {
    use turnwright_core::clock::SystemClock;

    use super::*;

    async fn get(source: &KeySource) -> Result<String, ErrorInfo> {
        source.get(&SystemClock).await
    }

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("turnwright-key-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    #[tokio::test]
    async fn a_file_is_read_for_each_call_and_what_is_wrong_with_it_is_said_without_it() {
        let path = file("exchanged", "  first-key\n");
        let source = KeySource::new(Source::File(path.clone()));
        assert_eq!(get(&source).await.unwrap(), "first-key");
        std::fs::write(&path, "second-key").unwrap();
        assert_eq!(get(&source).await.unwrap(), "second-key");
        std::fs::write(&path, " \n").unwrap();
        assert!(get(&source).await.unwrap_err().message.contains("holds nothing"));
        std::fs::write(&path, "secret ".repeat(20_000)).unwrap();
        let error = get(&source).await.unwrap_err();
        assert!(error.message.contains("too long") && !error.message.contains("secret"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = get(&source).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
        assert!(error.message.contains("exchanged"), "{error}");
        let folder = KeySource::new(Source::File(std::env::temp_dir()));
        assert!(get(&folder).await.unwrap_err().message.contains("no regular file"));
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_that_nobody_writes_to_holds_nothing_up() {
        let path = std::env::temp_dir().join(format!("turnwright-key-{}-pipe", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let source = KeySource::new(Source::File(path.clone()));
        let error = runtime.block_on(get(&source)).unwrap_err();
        assert!(error.message.contains("no regular file"), "{error}");
        // It waits for all its threads.
        drop(runtime);
        std::fs::remove_file(path).unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_runs_once_until_its_key_is_refused() {
        let count = file("count", "");
        let script = format!("echo x >> '{0}'; echo key-$(wc -l < '{0}')", count.display());
        let args = vec!["-c".into(), script.into()];
        let source = KeySource::new(Source::Command { program: "sh".into(), args });
        let (one, other) = tokio::join!(get(&source), get(&source));
        assert_eq!((one.unwrap(), other.unwrap()), ("key-1".into(), "key-1".into()));
        source.forget("key-1");
        assert_eq!(get(&source).await.unwrap(), "key-2");
        // A call that went out with the one before is refused late: that says nothing of the key there is now.
        source.forget("key-1");
        assert_eq!(get(&source).await.unwrap(), "key-2");
        std::fs::remove_file(count).unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_that_fails_is_an_error_without_its_words() {
        for (script, words) in
            [("echo secret; echo secret >&2; exit 3", "failed with"), ("true", "holds nothing")]
        {
            let source = KeySource::new(Source::Command {
                program: "sh".into(),
                args: vec!["-c".into(), script.into()],
            });
            let error = get(&source).await.unwrap_err();
            assert!(error.message.contains(words) && !error.message.contains("secret"), "{error}");
        }
        let source = KeySource::new(Source::Command { program: "/no/such/program".into(), args: Vec::new() });
        assert!(get(&source).await.unwrap_err().message.contains("cannot be run"));
    }
}
