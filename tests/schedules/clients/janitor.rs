//! The janitor: rule 4, "finishes what is unclear".

use crate::model::Ms;

/// What is still to be undone.
#[derive(Debug)]
pub(crate) struct Janitor<Id> {
    duties: Vec<Duty<Id>>,
}

/// Ids to release to 0, one after the other.
#[derive(Debug)]
struct Duty<Id> {
    ids: Vec<Id>,
    /// A release sent later than this finds everything that could still arrive; any does when it is `None`.
    after: Option<Ms>,
}

impl<Id> Default for Janitor<Id> {
    fn default() -> Self {
        Self { duties: Vec::new() }
    }
}

impl<Id: Copy + PartialEq> Janitor<Id> {
    pub(crate) fn take_on(&mut self, ids: Vec<Id>, after: Option<Ms>) {
        match self.duties.iter_mut().find(|duty| duty.ids == ids) {
            Some(duty) => duty.after = duty.after.max(after),
            None => self.duties.push(Duty { ids, after }),
        }
    }

    /// The ids to release next, and the time after which that will be for good.
    pub(crate) fn next(&self) -> impl Iterator<Item = (Id, Option<Ms>)> {
        self.duties.iter().map(|duty| (duty.ids[0], duty.after))
    }

    /// Whether it is going to release this id.
    pub(crate) fn has(&self, id: Id) -> bool {
        self.duties.iter().any(|duty| duty.ids.contains(&id))
    }

    /// Some process ends; the ids nobody will release now.
    pub(crate) fn dismiss(&mut self, is_its: impl Fn(Id) -> bool) -> Vec<Id> {
        let gone = |duty: &mut Duty<Id>| is_its(duty.ids[0]);
        self.duties.extract_if(.., gone).flat_map(|duty| duty.ids).collect()
    }

    /// A release of this id, sent then, has been answered.
    pub(crate) fn answered(&mut self, id: Id, sent: Ms) {
        for duty in &mut self.duties {
            if duty.ids[0] == id && Some(sent) > duty.after {
                duty.ids.remove(0);
            }
        }
        self.duties.retain(|duty| !duty.ids.is_empty());
    }
}
