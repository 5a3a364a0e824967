// Package deploy tests what is in the folder deploy: each file is read by the parser of the
// program that it is for, and what it says of this program is compared with the program. It is a
// module of its own, as these parsers have large requirements.
package deploy
