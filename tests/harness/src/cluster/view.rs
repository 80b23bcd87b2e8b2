//! One node's view of the cluster.

use redis::{Connection, RedisResult, cmd};

/// The answer to `CLUSTER NODES`.
#[derive(Debug)]
pub(super) struct View(Vec<Member>);

/// One line of it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) port: u16,
    /// The id of its master, when it is a replica.
    pub(super) master: Option<String>,
    /// It is thought dead, or not known well enough yet.
    pub(super) is_doubtful: bool,
    slots: Vec<(u16, u16)>,
}

impl View {
    pub(super) fn of(node: &mut Connection) -> RedisResult<Self> {
        let lines: String = cmd("CLUSTER").arg("NODES").query(node)?;
        Ok(Self(lines.lines().filter_map(Member::parse).collect()))
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.0
    }

    pub(super) fn on(&self, port: u16) -> Option<&Member> {
        self.0.iter().find(|member| member.port == port)
    }

    pub(super) fn id_of(&self, port: u16) -> Option<&str> {
        Some(&self.on(port)?.id)
    }

    /// The port of the master that keeps a slot.
    pub(super) fn master_of(&self, slot: u16) -> Option<u16> {
        self.0.iter().find(|member| member.keeps(slot)).map(|member| member.port)
    }

    /// The ports of those who are a master's replicas.
    pub(super) fn replicas_of(&self, master: u16) -> impl Iterator<Item = u16> {
        let id = self.id_of(master);
        let its = move |member: &&Member| id.is_some() && member.master.as_deref() == id;
        self.0.iter().filter(its).map(|member| member.port)
    }

    /// Who keeps which slots, as far as any are kept.
    pub(super) fn homes(&self) -> Vec<(u16, u16, u16)> {
        let slots = |member: &Member| {
            let port = member.port;
            member.slots.iter().map(move |&(first, last)| (first, last, port)).collect::<Vec<_>>()
        };
        let mut homes: Vec<_> = self.0.iter().flat_map(slots).collect();
        homes.sort_unstable();
        homes
    }
}

impl Member {
    pub(super) fn is_master(&self) -> bool {
        self.master.is_none()
    }

    pub(super) fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    fn keeps(&self, slot: u16) -> bool {
        self.slots.iter().any(|&(first, last)| (first..=last).contains(&slot))
    }

    /// `id ip:port@bus flags master ping pong epoch link slots…`
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split(' ').collect();
        let (flags, master, slots) = (*fields.get(2)?, *fields.get(3)?, fields.get(8..)?);
        let address = fields[1].split('@').next()?;
        let is = |flag| flags.split(',').any(|one| one == flag);
        let slots = slots.iter().filter(|range| !range.starts_with('[')).filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        Some(Self {
            id: fields[0].into(),
            port: address.rsplit_once(':')?.1.parse().ok()?,
            master: (master != "-").then(|| master.into()),
            is_doubtful: ["fail", "fail?", "handshake", "noaddr"].into_iter().any(is),
            slots: slots.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let member = |line| Member::parse(line).unwrap();
        let master =
            member("a 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-9 11 [12->-b]");
        assert_eq!((master.id.as_str(), master.port, master.is_master()), ("a", 7000, true));
        assert_eq!([9, 10, 11, 12].map(|slot| master.keeps(slot)), [true, false, true, false]);
        let replica = member("b 127.0.0.1:7001@17001,host slave,fail? a 0 0 1 connected");
        assert_eq!((replica.master.as_deref(), replica.is_doubtful), (Some("a"), true));
    }
}
