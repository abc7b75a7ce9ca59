// image_files FOLDER: prints the listing of an image folder, a line "label path" each, or
// image_files: reads paths, one a line, and writes "height width" and the bytes of each, H × W × C.
#include "worker/data/image_listing.h"
#include "worker/data/jpeg.h"
#include "worker/data/png.h"
#include "worker/data/read_file.h"

#include <iostream>
#include <string>

using namespace ddprun;

namespace {

transforms::Image decode(const std::string& path) {
  const auto bytes = data::read_file(path, std::size_t{1} << 30).value();
  if (path.ends_with(".png")) return data::decode_png(bytes, path).value();
  const transforms::Size size = data::read_jpeg_size(bytes, path).value();
  return data::decode_jpeg(bytes, {0, 0, size.height, size.width}, path).value();
}

void print(const transforms::Image& image) {
  std::cout << image.height << ' ' << image.width << '\n';
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < image.width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c) std::cout.put(static_cast<char>(*image.at(c, y, x)));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    for (const auto& file : data::list_images(argv[1]).value().files)
      std::cout << file.label << ' ' << file.path << '\n';
    return 0;
  }
  std::string path;
  while (std::getline(std::cin, path)) print(decode(path));
}
