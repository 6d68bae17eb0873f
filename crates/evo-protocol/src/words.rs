//! Enums whose variants are closed words of files and messages. One line gives a variant and its word, so that neither can
//! be forgotten.

/// See the module of this name.
#[macro_export]
macro_rules! words {
    // With the class and the meaning of each word beside it.
    ($(#[$meta:meta])* $name:ident: $class:ident $class_of:ident, $text_of:ident
        { $($variant:ident = $word:literal $kind:ident $text:literal,)* }) => {
        $crate::words! { $(#[$meta])* $name { $(#[doc = $text] $variant = $word,)* } }

        impl $name {
            pub fn $class_of(self) -> $class {
                match self { $($name::$variant => $class::$kind,)* }
            }

            pub fn $text_of(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// In order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            pub fn named(word: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use crate::check::GateCheck;
    use crate::device::DeviceKind;
    use crate::dtype::DType;
    use crate::verdict::{Cause, Gate, VerdictKind};

    #[test]
    fn names_in_files_are_the_names_in_messages() {
        fn check<T: serde::Serialize + Copy>(all: &[T], as_str: fn(T) -> &'static str) {
            for word in all {
                assert_eq!(serde_json::to_string(word).unwrap(), format!("\"{}\"", as_str(*word)));
            }
        }
        check(VerdictKind::ALL, VerdictKind::as_str);
        check(Cause::ALL, Cause::as_str);
        check(Gate::ALL, Gate::as_str);
        check(DType::ALL, DType::as_str);
        check(DeviceKind::ALL, DeviceKind::as_str);
        check(GateCheck::ALL, GateCheck::as_str);
    }
}
