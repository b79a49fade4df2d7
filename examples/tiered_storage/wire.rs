//! What a process tells before and after each event: one short line, written in one piece. A pipe
//! keeps what a killed process wrote.

use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::{Context, bail};
use tidelog::remote_log::Event;

#[derive(Debug)]
pub(crate) enum Told {
    /// The event is about to be recorded.
    Begun(Event),
    /// The partition's event was acknowledged.
    Acknowledged(i32),
    /// The partition's event was refused.
    Refused(i32),
    /// The work of the phase is done.
    Finished,
}

impl Told {
    /// Writes the line to stdout, which holds it together.
    pub(crate) fn tell(&self) -> anyhow::Result<()> {
        let line = match self {
            Self::Begun(event) => {
                let mut line = "begun ".to_owned();
                event.encode()?.iter().try_for_each(|byte| write!(line, "{byte:02x}"))?;
                line
            }
            Self::Acknowledged(partition) => format!("acknowledged {partition}"),
            Self::Refused(partition) => format!("refused {partition}"),
            Self::Finished => "finished".to_owned(),
        };
        Ok(writeln!(io::stdout().lock(), "{line}")?)
    }

    pub(crate) fn parse(line: &str) -> anyhow::Result<Self> {
        let understand = || {
            Ok(match line.split_once(' ') {
                Some(("begun", hex)) => Self::Begun(Event::decode(&bytes(hex)?)?),
                Some(("acknowledged", partition)) => Self::Acknowledged(partition.parse()?),
                Some(("refused", partition)) => Self::Refused(partition.parse()?),
                None if line == "finished" => Self::Finished,
                _ => bail!("no such word"),
            })
        };
        understand().with_context(|| format!("the killed process said {line:?}"))
    }
}

fn bytes(hex: &str) -> anyhow::Result<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2).map(std::str::from_utf8);
    digits.map(|digits| Ok(u8::from_str_radix(digits?, 16)?)).collect()
}
