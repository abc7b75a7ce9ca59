#pragma once

#include "rendezvous/base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::data {

/// Image files by class, in torchvision's order: classes are the names of the folders, sorted by code point;
/// files of a class are sorted by folder, then by name.
struct ImageListing {
  struct File {
    std::string path;
    std::int64_t label = 0;
  };
  std::vector<std::string> classes;
  std::vector<File> files;
};

/// Lists <folder>/<class>/…/*.{jpg,jpeg,png}, in any case; links are followed, other files ignored.
///
/// Errors  kNotFound: no folder, or no class in it; kCorrupt: a class without an image, or a file that Python would
///         take for an image and ddprun cannot read (.bmp, .webp and the like). Each names it.
Result<ImageListing> list_images(const std::string& folder);

/// Parts a listing: of each class a share of the files, chosen at random but always the same ones, and at least
/// one, is held out.
struct ListingSplits {
  ImageListing train;
  ImageListing held_out;
};
/// Errors  kCorrupt: a class with fewer than two images.
Result<ListingSplits> split_listing(const ImageListing& listing, double held_out_share);

/// `limit` of the files, evenly spread over them; 0: all.
ImageListing limited(ImageListing listing, std::int64_t limit);

}  // namespace ddprun::data
