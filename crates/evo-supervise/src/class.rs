//! Which devices may share a study: those whose times compare, judged by the same gates.

use std::collections::BTreeMap;

use evo_protocol::device::{DeviceInfo, DeviceKind};

#[derive(Clone, Copy, Debug)]
pub struct DeviceClass<'a> {
    pub info: &'a DeviceInfo,
    pub settings: &'a BTreeMap<String, String>,
    pub judge: &'a str,
}

impl DeviceClass<'_> {
    /// In words; `None` where the other is of this class.
    pub fn difference(&self, other: &DeviceClass<'_>) -> Option<String> {
        let (first, other) = (self.properties(), other.properties());
        let value =
            |all: &BTreeMap<String, String>, name: &str| all.get(name).cloned().unwrap_or("unknown".into());
        let pairs = first.keys().chain(other.keys());
        let pairs = pairs.map(|name| (name, value(&first, name), value(&other, name)));
        let different: Vec<_> = pairs.filter(|(_, first, other)| first != other).collect();
        // The name says most.
        let named = different.iter().find(|(name, ..)| *name == "name");
        let (name, first, other) = named.or(different.first())?;
        Some(format!("its {name} is `{other}` and not `{first}`"))
    }

    fn properties(&self) -> BTreeMap<String, String> {
        let info = self.info;
        let memory = match info.kind {
            DeviceKind::Host => format!("{} GiB", info.memory_bytes.div_ceil(1 << 30)),
            DeviceKind::Cuda | DeviceKind::Replay => info.memory_bytes.to_string(),
        };
        let properties = [
            ("kind", info.kind.as_str().to_string()),
            ("name", info.name.clone()),
            ("architecture", info.arch.clone()),
            ("number of multiprocessors", info.multiprocessors.to_string()),
            ("memory", memory),
            ("driver", info.driver.clone()),
            ("cache", info.l2_bytes.to_string()),
            ("limits", serde_json::to_string(&info.limits).unwrap_or_default()),
            ("evo", self.judge.to_string()),
        ];
        let properties = properties.into_iter().map(|(name, value)| (name.to_string(), value));
        properties.chain(self.settings.clone()).collect()
    }
}
