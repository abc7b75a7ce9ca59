#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ddprun::runtime::zip {

// The parts of PKWARE's APPNOTE.TXT that stored records need.
inline constexpr std::uint32_t kLocalSignature = 0x04034b50;
inline constexpr std::uint32_t kCentralSignature = 0x02014b50;
inline constexpr std::uint32_t kEndSignature = 0x06054b50;
inline constexpr std::uint32_t kEnd64Signature = 0x06064b50;
inline constexpr std::uint32_t kLocator64Signature = 0x07064b50;
inline constexpr std::size_t kLocalSize = 30;
inline constexpr std::size_t kCentralSize = 46;
inline constexpr std::size_t kEndSize = 22;
inline constexpr std::size_t kEnd64Size = 56;
inline constexpr std::size_t kLocator64Size = 20;
inline constexpr std::uint32_t kMax32 = 0xffffffff;
inline constexpr std::uint16_t kMax16 = 0xffff;
inline constexpr std::uint16_t kExtra64 = 0x0001;
inline constexpr std::uint16_t kExtraPadding = 0x4246;  ///< "FB": the padding torch.save uses
inline constexpr std::uint16_t kUtf8 = 0x0800;
inline constexpr std::uint64_t kAlignment = 64;

/// CRC-32 of any size of data.
std::uint32_t crc32(std::span<const std::byte> data);

}  // namespace ddprun::runtime::zip
