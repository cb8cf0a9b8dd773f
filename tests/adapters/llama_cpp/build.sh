#!/bin/sh
# build.sh FOLDER PYTHON VERSION: llama.cpp's server, from the sources that llama-cpp-python VERSION
# carries, as FOLDER/bin/llama-server; its model converter lies in FOLDER/source.
#
# llama.cpp's own switch for llguidance fetches and compiles a Rust library. PYTHON's llguidance
# package has the same functions in its extension module; that refers to symbols of Python's, of
# which none is used here: a library of empty ones stands in for them.
set -eu
folder=$1 python=$2 version=$3
here=$(cd "$(dirname "$0")" && pwd)
for tool in cmake c++ nm; do
  command -v "$tool" >/dev/null || { echo "build.sh: $tool is needed" >&2; exit 1; }
done

rm -rf "$folder"
mkdir -p "$folder/lib"
folder=$(cd "$folder" && pwd)
"$python" -m pip download --disable-pip-version-check --quiet --no-deps \
  --no-binary llama-cpp-python --dest "$folder" "llama-cpp-python==$version"
mkdir "$folder/source"
tar -xzf "$folder/llama_cpp_python-$version.tar.gz" -C "$folder/source" --strip-components=3 \
  "llama_cpp_python-$version/vendor/llama.cpp"

cp "$("$python" -c 'import llguidance._lib as library; print(library.__file__)')" \
  "$folder/lib/libllguidance.so"
nm -D --undefined-only "$folder/lib/libllguidance.so" \
  | awk '$2 ~ /^_?Py/ { print "char " $2 "[512];" }' > "$folder/lib/python.c"
cc -shared -fPIC -o "$folder/lib/libnopython.so" "$folder/lib/python.c"

cmake -S "$folder/source" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release \
  -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
  -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_OPENSSL=OFF \
  -DCMAKE_CXX_FLAGS="-DLLAMA_USE_LLGUIDANCE -I'$here'" \
  -DCMAKE_CXX_STANDARD_LIBRARIES="-L'$folder/lib' -lllguidance -lnopython -Wl,-rpath,'$folder/lib'"
cmake --build "$folder/build" --target llama-server --parallel "$(nproc)"
mv "$folder/build/bin" "$folder/bin"
rm -rf "$folder/build" "$folder"/*.tar.gz
