//! Commands, as an append-only file has them.

use std::collections::VecDeque;

pub(crate) type Command = Vec<String>;

/// Cuts bytes into commands, and puts those together that took effect at once.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    bytes: Vec<u8>,
    /// Between `MULTI` and `EXEC`.
    open: Option<Vec<Command>>,
    whole: VecDeque<Vec<Command>>,
}

impl Transactions {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let mut used = 0;
        while let Some((command, length)) = command(&self.bytes[used..]) {
            used += length;
            let Some(command) = command else { continue };
            match (command[0].to_ascii_uppercase().as_str(), &mut self.open) {
                ("MULTI", _) => self.open = Some(Vec::new()),
                ("EXEC", _) => self.whole.extend(self.open.take()),
                (_, Some(open)) => open.push(command),
                (_, None) => self.whole.push_back(vec![command]),
            }
        }
        self.bytes.drain(..used);
    }

    /// What is not whole will not be: the server has cut it off.
    pub(crate) fn forget(&mut self) {
        self.bytes.clear();
        self.open = None;
    }

    pub(crate) fn next(&mut self) -> Option<Vec<Command>> {
        self.whole.pop_front()
    }
}

/// The first command and its length; `None` in the place of a command is a remark.
fn command(bytes: &[u8]) -> Option<(Option<Command>, usize)> {
    let (head, mut at) = line(bytes, 0)?;
    if head.first() != Some(&b'*') {
        return Some((None, at));
    }
    let count: usize = number(&head[1..]);
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (size, from) = line(bytes, at)?;
        let end = from + number::<usize>(&size[1..]);
        words.push(String::from_utf8_lossy(bytes.get(from..end)?).into_owned());
        at = end + 2;
    }
    (at <= bytes.len()).then_some((Some(words), at))
}

/// A line without its end, and where the next one begins.
fn line(bytes: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = bytes.get(from..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&rest[..end], from + end + 2))
}

fn number<N: std::str::FromStr + Default>(digits: &[u8]) -> N {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&str]) -> Vec<Vec<String>> {
        let mut transactions = Transactions::default();
        let mut all = Vec::new();
        for chunk in chunks {
            transactions.feed(chunk.as_bytes());
            while let Some(commands) = transactions.next() {
                all.push(commands.iter().map(|command| command.join(" ")).collect());
            }
        }
        all
    }

    #[test]
    fn commands_come_alone_or_together_and_in_any_pieces() {
        let text = "#TS:1\r\n*2\r\n$3\r\nDEL\r\n$1\r\na\r\n*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nincr\r\n$1\r\nb\r\n\
                    *3\r\n$3\r\nset\r\n$1\r\nc\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nEXEC\r\n";
        let whole = [vec!["DEL a".to_owned()], vec!["incr b".to_owned(), "set c \r\n".to_owned()]];
        assert_eq!(read(&[text]), whole);
        for cut in 1..text.len() {
            assert_eq!(read(&[&text[..cut], &text[cut..]]), whole, "cut at {cut}");
        }
    }
}
