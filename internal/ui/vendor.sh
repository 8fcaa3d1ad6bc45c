#!/bin/sh
# Makes static/vendor/ui.js anew, in a temporary folder, with npm. Nothing else of Cascade needs Node.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >/dev/null
npm install --no-audit --no-fund --ignore-scripts preact@11.2.0 @preact/signals@2.11.4 @preact/signals-core@1.14.5 htm@3.1.1 esbuild@0.28.2
cat >entry.mjs <<'END'
export { h, render, Fragment } from "preact";
export { useEffect, useRef, useState, useMemo } from "preact/hooks";
export { signal, computed, effect, batch } from "@preact/signals";
import { h } from "preact";
import htm from "htm";
export const html = htm.bind(h);
END
node_modules/.bin/esbuild entry.mjs --bundle --minify --format=esm --outfile="$here/static/vendor/ui.js"
