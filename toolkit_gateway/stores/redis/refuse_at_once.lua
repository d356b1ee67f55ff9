#!lua
-- With the line above, Redis refuses the script before it begins if it may not write now, as when its memory is full.

