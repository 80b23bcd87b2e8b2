//! The graph of files: an edge goes from a file to the file that defines a name which the first one uses.
//!
//! A module that only re-exports a name (`pub use`) does not use it. A file that imports the name from there uses the file that
//! defines it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    items::{Import, Items},
    tokens::tokens,
};

/// File -> used file -> one of the names that are used.
pub(crate) type Edges = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

/// The modules of all crates in a set of sources.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    modules: Vec<Module>,
}

#[derive(Debug)]
struct Module {
    file: PathBuf,
    root: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: Items,
}

/// How many re-exports are followed from one name.
const MAX_REEXPORTS: usize = 8;

impl Graph {
    /// Finds the crates among `sources` and reads their modules.
    pub(crate) fn read(sources: &BTreeMap<PathBuf, String>) -> Self {
        let mut graph = Self::default();
        for file in sources.keys().filter(|file| is_root(file)) {
            let folder = file.parent().unwrap_or(Path::new(""));
            let root = graph.modules.len();
            graph.read_file(sources, file, folder, root, None);
        }
        graph
    }

    /// The files that were read.
    pub(crate) fn files(&self) -> BTreeSet<&Path> {
        self.modules.iter().map(|module| module.file.as_path()).collect()
    }

    fn read_file(
        &mut self,
        sources: &BTreeMap<PathBuf, String>,
        file: &Path,
        folder: &Path,
        root: usize,
        parent: Option<usize>,
    ) -> usize {
        let source = sources.get(file).map_or("", String::as_str);
        let items = Items::read(&tokens(source));
        self.add(sources, file, folder, root, parent, items)
    }

    fn add(
        &mut self,
        sources: &BTreeMap<PathBuf, String>,
        file: &Path,
        folder: &Path,
        root: usize,
        parent: Option<usize>,
        mut items: Items,
    ) -> usize {
        let own = self.modules.len();
        let (files, inline) = (std::mem::take(&mut items.files), std::mem::take(&mut items.inline));
        let children = BTreeMap::new();
        self.modules.push(Module { file: file.to_owned(), root, parent, children, items });
        for name in files {
            let flat = folder.join(format!("{name}.rs"));
            let nested = folder.join(&name).join("mod.rs");
            let file = if sources.contains_key(&flat) { flat } else { nested };
            let child = self.read_file(sources, &file, &folder.join(&name), root, Some(own));
            self.modules[own].children.insert(name, child);
        }
        for (name, items) in inline {
            let child = self.add(sources, file, &folder.join(&name), root, Some(own), items);
            self.modules[own].children.insert(name, child);
        }
        own
    }

    pub(crate) fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (own, module) in self.modules.iter().enumerate() {
            let used = edges.entry(module.file.clone()).or_default();
            for (name, target) in self.used(own) {
                if *target != module.file {
                    used.entry(target.to_owned()).or_insert(name);
                }
            }
        }
        edges
    }

    /// What the module `own` names, and the file that defines it.
    fn used(&self, own: usize) -> Vec<(String, &Path)> {
        let items = &self.modules[own].items;
        let named = |name: &String| items.paths.iter().any(|path| path[0] == *name);
        let imported = items
            .imports
            .iter()
            .filter(|import| !import.exported || named(&import.name))
            .flat_map(|import| self.import_targets(own, import));
        let paths = items
            .paths
            .iter()
            .filter(|path| path.len() > 1)
            .filter_map(|path| Some((path.join("::"), self.defining_file(own, path, 0)?)));
        imported.chain(paths).collect()
    }

    fn import_targets(&self, own: usize, import: &Import) -> Vec<(String, &Path)> {
        if import.name != "*" {
            let file = self.defining_file(own, &import.path, 0);
            return file.map(|file| (import.path.join("::"), file)).into_iter().collect();
        }
        let Some(of) = self.module_of(own, &import.path) else { return Vec::new() };
        let name = format!("{}::*", import.path.join("::"));
        vec![(name, self.modules[of].file.as_path())]
    }

    /// The module that `path` names, if it names one.
    fn module_of(&self, own: usize, path: &[String]) -> Option<usize> {
        let (module, rest) = self.walk(own, path, 0)?;
        rest.is_empty().then_some(module)
    }

    /// The file that defines what `path` names. A module by itself is no item.
    fn defining_file(&self, own: usize, path: &[String], depth: usize) -> Option<&Path> {
        let (module, rest) = self.walk(own, path, depth)?;
        match rest.first() {
            Some(item) => Some(self.item(module, item, depth)),
            None => {
                let parent = self.modules[module].parent?;
                let last = path.last()?;
                let defined = self.modules[parent].items.defined.contains(last);
                (defined && parent != own).then(|| self.modules[parent].file.as_path())
            }
        }
    }

    /// The file that defines `item`, which is named as one of `module`.
    fn item(&self, module: usize, item: &String, depth: usize) -> &Path {
        let Module { file, items, .. } = &self.modules[module];
        if items.defined.contains(item) || depth > MAX_REEXPORTS {
            return file;
        }
        let by_name = items.imports.iter().filter(|import| import.name == *item);
        let found =
            by_name.filter_map(|import| self.defining_file(module, &import.path, depth + 1));
        let globs = items.imports.iter().filter(|import| import.name == "*");
        let in_globs = globs.filter_map(|import| {
            let of = self.module_of(module, &import.path)?;
            self.modules[of].items.defined.contains(item).then(|| self.modules[of].file.as_path())
        });
        found.chain(in_globs).next().unwrap_or(file)
    }

    /// Follows `path` through the modules of its crate: the last module, and the words behind it.
    fn walk<'p>(
        &self,
        own: usize,
        path: &'p [String],
        depth: usize,
    ) -> Option<(usize, &'p [String])> {
        let first = path.first()?.as_str();
        let module = &self.modules[own];
        let (mut at, mut rest) = match first {
            "crate" => (module.root, &path[1..]),
            "self" => (own, &path[1..]),
            "super" => (module.parent?, &path[1..]),
            _ if module.children.contains_key(first) => (own, path),
            _ => (self.alias(own, first, depth)?, &path[1..]),
        };
        while let Some(word) = rest.first() {
            at = match self.modules[at].children.get(word) {
                Some(&child) => child,
                None if word == "super" => self.modules[at].parent?,
                None => match self.reexported_module(own, at, word, depth) {
                    Some(module) => module,
                    None => break,
                },
            };
            rest = &rest[1..];
        }
        Some((at, rest))
    }

    /// The module that `name` stands for in `own`, by a `use`.
    fn alias(&self, own: usize, name: &str, depth: usize) -> Option<usize> {
        if depth > MAX_REEXPORTS {
            return None;
        }
        let imports = self.modules[own].items.imports.iter();
        imports.filter(|import| import.name == name && import.path[0] != name).find_map(|import| {
            let (module, rest) = self.walk(own, &import.path, depth + 1)?;
            rest.is_empty().then_some(module)
        })
    }

    /// The module that `name` stands for in another module, which imports it.
    fn reexported_module(&self, own: usize, at: usize, name: &str, depth: usize) -> Option<usize> {
        if at == own { None } else { self.alias(at, name, depth) }
    }
}

/// Whether `file` is the root of a crate.
fn is_root(file: &Path) -> bool {
    let name = file.file_name().is_some_and(|name| name == "lib.rs" || name == "main.rs");
    let roots = ["tests", "benches", "examples", "bin"];
    let folder = file.parent().and_then(Path::file_name);
    name || folder.is_some_and(|folder| roots.iter().any(|root| folder == *root))
}

/// The largest sets of files that use each other in a circle.
pub(crate) fn circles(edges: &Edges) -> Vec<BTreeSet<PathBuf>> {
    let reached: BTreeMap<_, _> = edges.keys().map(|file| (file, reachable(edges, file))).collect();
    let mut circles: Vec<BTreeSet<PathBuf>> = Vec::new();
    for (file, others) in &reached {
        if !others.contains(*file) || circles.iter().any(|circle| circle.contains(*file)) {
            continue;
        }
        let circle = others.iter().filter(|other| reached[other].contains(*file)).cloned();
        circles.push(circle.collect());
    }
    circles
}

fn reachable(edges: &Edges, from: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut ahead = vec![from];
    while let Some(file) = ahead.pop() {
        for next in edges.get(file).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(next.clone()) {
                ahead.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Edges {
        let sources =
            files.iter().map(|(file, source)| (file.into(), (*source).to_owned())).collect();
        Graph::read(&sources).edges()
    }

    fn uses(edges: &Edges, file: &str) -> Vec<String> {
        edges[Path::new(file)].keys().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn paths_by_crate_super_and_self_are_followed() {
        let edges = edges(&[
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a/mod.rs", "mod d; mod e; use crate::b::B; fn f() { self::d::g(); }"),
            ("src/a/d.rs", "use super::e::E; fn g() { super::super::c::h() }"),
            ("src/a/e.rs", ""),
            ("src/b.rs", ""),
            ("src/c.rs", ""),
        ]);
        assert_eq!(uses(&edges, "src/a/mod.rs"), ["src/a/d.rs", "src/b.rs"]);
        assert_eq!(uses(&edges, "src/a/d.rs"), ["src/a/e.rs", "src/c.rs"]);
    }

    #[test]
    fn a_name_that_is_handed_on_leads_to_the_file_that_defines_it() {
        let edges = edges(&[
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "mod c; pub(crate) use c::C; pub(crate) use crate::b as d;"),
            ("src/a/c.rs", "use super::d::B; pub(crate) struct C;"),
            ("src/b.rs", "use crate::a; fn f(c: a::C) {} pub(crate) struct B;"),
        ]);
        assert!(uses(&edges, "src/a.rs").is_empty());
        assert_eq!(uses(&edges, "src/b.rs"), ["src/a/c.rs"]);
        assert_eq!(uses(&edges, "src/a/c.rs"), ["src/b.rs"]);
    }

    #[test]
    fn a_module_that_uses_what_it_hands_on_depends_on_it() {
        let edges = edges(&[
            ("src/main.rs", "mod a; use a::f; fn main() { f() }"),
            ("src/a.rs", "mod b; pub(crate) use b::B; pub(crate) fn f() { B::new() }"),
            ("src/a/b.rs", "use super::f; pub(crate) struct B;"),
        ]);
        assert_eq!(uses(&edges, "src/main.rs"), ["src/a.rs"]);
        let circle = ["src/a.rs", "src/a/b.rs"].map(PathBuf::from);
        assert_eq!(circles(&edges), [BTreeSet::from(circle)]);
    }

    #[test]
    fn a_planted_circle_is_found() {
        let planted = |last: &'static str| {
            edges(&[
                ("src/main.rs", "mod a; mod b; mod c;"),
                ("src/a.rs", "use crate::b;\nfn f() { b::g() }"),
                ("src/b.rs", "use crate::c::h;"),
                ("src/c.rs", last),
            ])
        };
        assert!(circles(&planted("// use crate::a::f;")).is_empty());
        for last in ["use crate::a::f;", "use super::a::f;", "fn h() { crate::a::f() }"] {
            let circle = ["src/a.rs", "src/b.rs", "src/c.rs"].map(PathBuf::from);
            assert_eq!(circles(&planted(last)), [BTreeSet::from(circle)], "{last}");
        }
    }
}
