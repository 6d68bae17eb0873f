//! Lists of few values that are repeated often. A long one is sent with each value once: a call may have thousands of
//! launches of two kernels, and what they need must fit into a line. Short ones are plain lists.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list of more is long.
const PLAIN_MAX: usize = 256;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SentList<T> {
    Plain(Vec<T>),
    Once {
        values: Vec<T>,
        /// Which value each element has.
        order: Vec<u32>,
    },
}

pub fn serialize<T: Serialize + PartialEq, S: Serializer>(list: &[T], to: S) -> Result<S::Ok, S::Error> {
    if list.len() <= PLAIN_MAX {
        return list.serialize(to);
    }
    let (mut values, mut order) = (Vec::<&T>::new(), Vec::with_capacity(list.len()));
    for element in list {
        let known = values.iter().position(|value| *value == element);
        order.push(known.unwrap_or(values.len()) as u32);
        if known.is_none() {
            values.push(element);
        }
    }
    SentList::Once { values, order }.serialize(to)
}

pub fn deserialize<'d, T: Deserialize<'d> + Clone, D: Deserializer<'d>>(from: D) -> Result<Vec<T>, D::Error> {
    let (values, order) = match SentList::<T>::deserialize(from)? {
        SentList::Plain(list) => return Ok(list),
        SentList::Once { values, order } => (values, order),
    };
    let value = |at: u32| {
        values.get(at as usize).cloned().ok_or_else(|| D::Error::custom(format!("there is no value {at}")))
    };
    order.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sent(#[serde(with = "super")] Vec<String>);

    #[test]
    fn what_is_repeated_is_sent_once() {
        let list = ["smooth", "decay"].repeat(2000).into_iter().map(str::to_string).collect();
        let text = serde_json::to_string(&Sent(list)).unwrap();
        assert!(text.len() < 9000, "{}", text.len());
        let back: Sent = serde_json::from_str(&text).unwrap();
        assert_eq!((back.0.len(), &back.0[3999][..]), (4000, "decay"));
        let short = Sent(vec!["smooth".into(), "smooth".into()]);
        assert_eq!(serde_json::to_string(&short).unwrap(), r#"["smooth","smooth"]"#);
        assert_eq!(serde_json::from_str::<Sent>(r#"["smooth","smooth"]"#).unwrap(), short);
    }

    #[test]
    fn a_value_that_is_not_there_is_an_error() {
        let error = serde_json::from_str::<Sent>(r#"{"values":["a"],"order":[0,1]}"#).unwrap_err();
        assert!(error.to_string().contains("there is no value 1"), "{error}");
    }
}
