"""From images to views."""
