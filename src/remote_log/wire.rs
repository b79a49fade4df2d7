//! The fields of Kafka's flexible records: big-endian numbers, lengths and counts as unsigned
//! varints of the length plus one (0: null), and a count of tagged fields behind each structure.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

use super::codec::CodecError;

/// Kafka's own limits.
const STRING_MAX: usize = i16::MAX as usize;
const LENGTH_MAX: usize = i32::MAX as usize - 1;

/// Builds a record.
#[derive(Default)]
pub(super) struct Writer(BytesMut);

impl Writer {
    pub(super) fn finish(self) -> Bytes {
        self.0.freeze()
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.put_u8(value);
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.0.put_i32(value);
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.0.put_i64(value);
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.put_u64(value);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.put_slice(bytes);
    }

    pub(super) fn uuid(&mut self, value: Uuid) {
        self.0.put_slice(value.as_bytes());
    }

    pub(super) fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    pub(super) fn no_tags(&mut self) {
        self.uvarint(0);
    }

    /// One tagged field of one byte.
    pub(super) fn one_tag(&mut self, tag: u32, value: u8) {
        self.uvarint(1);
        self.uvarint(tag);
        self.uvarint(1);
        self.u8(value);
    }

    pub(super) fn count(&mut self, field: &'static str, count: usize) -> Result<(), CodecError> {
        self.length(field, count, LENGTH_MAX)
    }

    pub(super) fn string(&mut self, field: &'static str, value: &str) -> Result<(), CodecError> {
        self.length(field, value.len(), STRING_MAX)?;
        self.0.put_slice(value.as_bytes());
        Ok(())
    }

    pub(super) fn nullable_bytes(
        &mut self,
        field: &'static str,
        value: Option<&[u8]>,
    ) -> Result<(), CodecError> {
        let Some(value) = value else {
            self.uvarint(0);
            return Ok(());
        };
        self.length(field, value.len(), LENGTH_MAX)?;
        self.0.put_slice(value);
        Ok(())
    }

    fn length(&mut self, field: &'static str, length: usize, limit: usize) -> Result<(), CodecError> {
        if length > limit {
            return Err(CodecError::TooLong { field, length: length as u64, limit: limit as u64 });
        }
        self.uvarint(length as u32 + 1);
        Ok(())
    }
}

/// Takes a record apart. Nothing is taken, and nothing allocated, beyond what the bytes hold.
pub(super) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    pub(super) fn finish(self) -> Result<(), CodecError> {
        if self.left.is_empty() {
            return Ok(());
        }
        Err(CodecError::TrailingBytes { count: self.left.len() as u64 })
    }

    fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], CodecError> {
        let (taken, left) =
            self.left.split_at_checked(length).ok_or_else(|| self.truncated(field, length))?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], CodecError> {
        let (taken, left) = self.left.split_first_chunk().ok_or_else(|| self.truncated(field, N))?;
        self.left = left;
        Ok(*taken)
    }

    #[cold]
    fn truncated(&self, field: &'static str, length: usize) -> CodecError {
        CodecError::Truncated { field, needed: length as u64, left: self.left.len() as u64 }
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, CodecError> {
        self.array(field).map(u8::from_be_bytes)
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, CodecError> {
        self.array(field).map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self, field: &'static str) -> Result<i64, CodecError> {
        self.array(field).map(i64::from_be_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, CodecError> {
        self.array(field).map(u64::from_be_bytes)
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    pub(super) fn uuid(&mut self, field: &'static str) -> Result<Uuid, CodecError> {
        self.array(field).map(Uuid::from_bytes)
    }

    /// At most 32 bits, in as few bytes as they take.
    pub(super) fn uvarint(&mut self, field: &'static str) -> Result<u32, CodecError> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.u8(field)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let padded = byte == 0 && shift > 0;
                let fits = u32::try_from(value).ok().filter(|_| !padded);
                return fits.ok_or_else(|| CodecError::Invalid { field, value: value.cast_signed() });
            }
        }
        Err(CodecError::Invalid { field, value: value.cast_signed() })
    }

    pub(super) fn no_tags(&mut self, field: &'static str) -> Result<(), CodecError> {
        match self.uvarint(field)? {
            0 => Ok(()),
            count => Err(CodecError::Invalid { field, value: count.into() }),
        }
    }

    /// No tagged field, or one of one byte: its tag and that byte.
    pub(super) fn one_tag(&mut self, field: &'static str) -> Result<Option<(u32, u8)>, CodecError> {
        match self.uvarint(field)? {
            0 => return Ok(None),
            1 => {}
            count => return Err(CodecError::Invalid { field, value: count.into() }),
        }
        let tag = self.uvarint("tag")?;
        match self.uvarint("length of a tagged field")? {
            1 => Ok(Some((tag, self.u8("tagged field")?))),
            length => Err(CodecError::Invalid { field: "length of a tagged field", value: length.into() }),
        }
    }

    /// How many items follow, each of which takes `item_bytes`.
    pub(super) fn count(&mut self, field: &'static str, item_bytes: usize) -> Result<usize, CodecError> {
        let count = self.length(field, LENGTH_MAX)?.ok_or(CodecError::Invalid { field, value: -1 })?;
        let needed = count as u64 * item_bytes as u64;
        let left = self.left.len() as u64;
        if needed > left { Err(CodecError::Truncated { field, needed, left }) } else { Ok(count) }
    }

    pub(super) fn string(&mut self, field: &'static str) -> Result<&'a str, CodecError> {
        let length = self.length(field, STRING_MAX)?.ok_or(CodecError::Invalid { field, value: -1 })?;
        Ok(std::str::from_utf8(self.take(field, length)?)?)
    }

    pub(super) fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, CodecError> {
        self.length(field, LENGTH_MAX)?.map(|length| self.take(field, length)).transpose()
    }

    fn length(&mut self, field: &'static str, limit: usize) -> Result<Option<usize>, CodecError> {
        let Some(length) = (self.uvarint(field)? as usize).checked_sub(1) else { return Ok(None) };
        if length > limit {
            return Err(CodecError::TooLong { field, length: length as u64, limit: limit as u64 });
        }
        Ok(Some(length))
    }
}
