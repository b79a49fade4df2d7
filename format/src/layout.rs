//! One declaration of a structure's bytes, from which both its encoder and its decoder come.

/// A value with a fixed little-endian form.
pub(crate) trait Field: Copy {
    /// Writes the value; `out` is exactly as long as the value.
    fn put(self, out: &mut [u8]);
    /// Reads the value; `bytes` is exactly as long as the value.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! integer_fields {
    ($($type:ty),+) => {$(
        impl Field for $type {
            fn put(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Self {
                Self::from_le_bytes(Field::get(bytes))
            }
        }
    )+};
}
integer_fields!(u8, u16, u32, u64);

impl<const N: usize> Field for [u8; N] {
    fn put(self, out: &mut [u8]) {
        out.copy_from_slice(&self);
    }
    fn get(bytes: &[u8]) -> Self {
        let mut value = [0; N];
        value.copy_from_slice(bytes);
        value
    }
}

/// Declares a structure as a table of `offset field: type`. It does not compile unless the offsets follow each other
/// without a gap and add up to the size, so every slice it takes is in bounds by construction.
macro_rules! layout {
    ($(#[$attribute:meta])* $name:ident, $size:literal { $($offset:literal $field:ident: $type:ty,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name { $(pub(crate) $field: $type,)+ }

        impl $name {
            pub(crate) fn encode(&self) -> [u8; $size] {
                let mut bytes = [0; $size];
                $($crate::layout::Field::put(
                    self.$field,
                    &mut bytes[$offset..$offset + size_of::<$type>()],
                );)+
                bytes
            }

            pub(crate) fn decode(bytes: &[u8; $size]) -> Self {
                Self {
                    $($field: $crate::layout::Field::get(&bytes[$offset..$offset + size_of::<$type>()]),)+
                }
            }
        }

        const _: () = {
            let mut end = 0;
            $(
                assert!(end == $offset, "a field does not start where the one before it ends");
                end += size_of::<$type>();
            )+
            assert!(end == $size, "the fields do not add up to the size");
        };
    };
}

/// Bytes as rows of a fixed size, without a copy; no row at all where they are not a whole number of them.
pub(crate) fn rows<const N: usize>(bytes: &[u8]) -> &[[u8; N]] {
    bytemuck::try_cast_slice(bytes).unwrap_or_default()
}
