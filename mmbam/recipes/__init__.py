"""From a folder of images, a network and a length to the whole config of a run."""
