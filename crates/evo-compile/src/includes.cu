//// names in brackets and in quotes, and one in a comment
#include <cuda_fp16.h>
#include "crt/mma.h"
int x; // #include "/etc/passwd"
//// within a comment
/* 
#include "/etc/passwd"
*/
//// behind the mark of a comment in a text
const char* s = "/* "; // */
#include <cuda_bf16.h>
//// a member of that name, and a computed file
struct { int include; } a; a.include = 1;
#define F <x.h>
#include F
//// a question after a file
#ifdef __has_include
#if __has_include(<cuda_fp16.h>)
#endif
#endif
//// a question after the question
#if defined(__has_include) && defined __has_embed
#endif
//// by absolute path
#include "/etc/passwd"
//// the next of that name
  # include_next </etc/shadow>
//// a directive over two lines
#inc\
lude "../x.h"
//// comments around the word
/* a */ #include/**/"a/../b.h"
//// backslashes
#include "..\secret"
//// behind quotes in quotes
auto c = '"'; auto s = "/*";
#include "/x"
/* */
//// behind a raw string
auto s = R"x(" /* )x";
#include "/x"
// */
//// embedded
const char a[] = {
#embed "/x"
};
//// a question after a foreign file
#if __has_include("/etc/shadow")
#endif
//// a digraph
%:include "/x"
//// lines of its own
#line 12
#line 12 "own.cu"
# 3 "own.cu"
//// lines of another file
#line 1 "/etc/passwd"
//// as a preprocessor says it
# 1 "evo_cuda.h" 2
//// computed lines
#line N
